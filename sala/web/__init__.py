"""The page of `sala serve`. A labeling project comes in; HTTP answers go out, and every correction to a journal on disk.

`server` listens, `security` checks who asks, `app` has the routes, `api` and `downloads` the answers, `session` the labels,
and `journal` the file that keeps them. Only the command line calls this room.
"""
