"""The command line: parse, call, print, exit code.

`options` has how options are declared, `flags` the groups of them that commands share, with `cluster`, `arguments` and
`timeline`. `subject` loads what the flags name, and `answer` asks about it, and writes the answer in all formats.
`messages` go to standard error; `help` lays out the help of commands, and `effects` knows which options change nothing.
"""
