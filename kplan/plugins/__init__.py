"""The in-tree plugins, one module or package each, named as upstream; `registry` lists them."""
