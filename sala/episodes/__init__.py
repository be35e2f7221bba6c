"""Tasks and how they are drawn. An `ImageStore` and a `Protocol` come in; `Episode` i, a pure function of (seed, i), goes out.

`Task` is what a method may look at, `Episode` adds what only a measurement may know. Everybody on the research side may call;
nothing here knows a network or a method.
"""
