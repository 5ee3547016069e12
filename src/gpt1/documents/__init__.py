"""What was found, for people: blocks as values, one function for each record, shown as a page or on a terminal."""

# What other rooms may import of this one's modules.
OFFERS = {
    "blocks": [
        "BarPlot",
        "Block",
        "Curve",
        "CurvePlot",
        "Estimate",
        "Facts",
        "Folded",
        "Heading",
        "Heads",
        "Lines",
        "Note",
        "Picture",
        "Pictures",
        "Quote",
        "Quotes",
        "SCORE_SPAN",
        "Section",
        "Table",
        "TableCell",
        "TableRow",
    ],
    "evaluation": ["evaluation_blocks", "scores_table", "seeds_blocks", "task_scores", "verdicts"],
    "figures": ["LONGEST_NAME", "between", "figure", "metric_name", "rough", "score", "shown_text"],
    "html": ["MARK", "render", "require_libraries"],
    "study": ["KINDS", "about_study", "judged_row", "judged_table", "study_blocks"],
    "table": ["table_blocks"],
    "terminal": ["render"],
    "verdict": ["verdict"],
}
