"""What goes wrong again and again is said once."""

from __future__ import annotations

from gpu_device_plugin.news import News


def test_a_text_is_news_until_it_changes_or_is_over() -> None:
    news = News()

    assert [news.is_new(text) for text in ("a", "a", "b", "a")] == [True, False, True, True]
    assert news.end()
    assert not news.end()
    assert news.is_new("a")
