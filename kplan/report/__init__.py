"""Documents as text, Markdown, HTML and the formats of pipelines.

`registry` knows all kinds and formats. The `view` of a kind yields `blocks` for people, which `text`, `markdown` and
`html` write, and cases for programs, which `pipelines` writes. Parts that several views show are made in `overview`,
`decision`, `details`, `timeline` and `new_nodes`; documents that answer no question in `config_view`, `snapshot_view`.
"""
