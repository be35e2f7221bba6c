"""The changes of a state that are in force, and those that were undone and can be made again."""

from __future__ import annotations

from dataclasses import dataclass, field

from sala.web.events import MAX_CLASSES, MAX_EVENTS, Event, names_added, parts_of


@dataclass
class InForce:
    """The events in force, oldest first, each with the session version that it led to. An undo removes the last, a redo
    brings back what was undone last; any other change forgets what was undone."""

    events: list[Event] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    undone: list[Event] = field(default_factory=list)  # the next to make again is the last
    n_added: int = 0

    def take(self, event: Event, version: int = 0) -> None:
        """Apply an event. ValueError where it cannot follow those before it."""
        self.check(event)
        if event["do"] == "undo":
            self.versions.pop()
            self.undone.append(self.events.pop())
            self.n_added -= len(names_added(self.undone[-1]))
            return
        if event["do"] == "redo":
            event = self.undone.pop()
        else:
            self.undone.clear()
        self.events.append(event)
        self.versions.append(version)
        self.n_added += len(names_added(event))

    def check(self, event: Event) -> None:
        what = event["do"]
        if what == "undo" and not self.events:
            raise ValueError("there is nothing to undo")
        if what == "redo" and not self.undone:
            raise ValueError("there is nothing to redo")
        n_added = self.n_added + len(names_added(event))
        if n_added > MAX_CLASSES:
            raise ValueError(f"there are at most {MAX_CLASSES} classes")
        if what != "undo" and len(self.events) >= MAX_EVENTS:
            raise ValueError(f"there are at most {MAX_EVENTS:,} changes")
        for name in named_classes(event):
            kind, _, number = name.partition("/")
            if kind == "added" and int(number) >= n_added:
                raise ValueError("it names a class that was not added before")


def named_classes(event: Event) -> list[str]:
    """Return the classes that an event names, and the labels that are none."""
    parts = parts_of(event)
    if parts:
        seen = (claim[0] for part in parts for claim in part.get("seen", ()) if claim is not None)
        return [*(part["to"] for part in parts), *set(seen)]
    return [*(event[key] for key in ("class", "into") if key in event), *event.get("classes", [])]
