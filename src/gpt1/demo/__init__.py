"""The embedded world: stories to read, tasks to learn, and settings with which the paper's idea shows in minutes."""

from gpt1.demo.tasks import TASKS
from gpt1.demo.writing import write_world

__all__ = ["TASKS", "write_world"]

# What other rooms may import of this one's modules.
OFFERS = {
    "books_page": ["BOOKS_TITLE", "books_opening"],
    "books_tour": ["BOOKS_FOLDER", "runs_of_books", "tour_books"],
    "page": ["TITLE", "opening"],
    "recipe": ["BooksPlan", "Plan"],
    "tour": ["FOLDER", "OWN_TEXT_FOLDER", "REPORT", "read_own_text", "runs_of", "tour"],
}
