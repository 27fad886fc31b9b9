"""The few words that rendering itself adds, in the languages of the site."""

from __future__ import annotations

_WORDS = {
    "en": {
        "drawing": "drawing in text",
        "code": "code",
        "table": "table",
        "formula": "formula",
        "difference": "difference",
        "line": "line {line}",
        "error": "error",
        "warning": "warning",
        "info": "note",
        "other": "the other place",
        "more_lines": "{count} more lines are not shown.",
        "more_columns": "{count} more characters",
        "same": "{count} unchanged lines",
        "one_same": "1 unchanged line",
        "none": "No line differs.",
        "coarse": "Parts that differ too much were not compared line by line: they are shown as replaced.",
    },
    "zh": {
        "drawing": "文字图",
        "code": "代码",
        "table": "表格",
        "formula": "公式",
        "difference": "差异",
        "line": "第 {line} 行",
        "error": "错误",
        "warning": "警告",
        "info": "提示",
        "other": "另一处",
        "more_lines": "还有 {count} 行没有显示。",
        "more_columns": "还有 {count} 个字符",
        "same": "{count} 行没有变化",
        "one_same": "1 行没有变化",
        "none": "没有不同的行。",
        "coarse": "差别太大的部分没有逐行比较，整段显示为替换。",  # noqa: RUF001
    },
}


def word(key: str, language: str, **values: object) -> str:
    """The words of `key` in a language, English where there is none, with the values put in."""
    return _WORDS.get(language, _WORDS["en"])[key].format(**values)
