"""Documents as text, Markdown, HTML and the formats of pipelines."""
