"""Names that a script, a makefile, a shell, Tcl, HTML or a terminal may read as something else."""

ODD = [
    "a b",
    "a'b",
    'a"b',
    "a;b",
    "a\\",
    "a#b",
    "a\nb",
    "a\x1b[2Jb",
    "$(touch pwned)",
    "`touch pwned`",
    "[exec touch pwned]",
    "{} ; exec touch pwned; {",
    "!touch pwned",
    "</script><script>x()</script>",
    "[/b]",
]
