"""A connector, what capture decides and the logs that it writes, put together without Spark; and its checks and files.

``commit_times`` is the capture of one database in the order of its commits, ``on_remap`` that on a shared remap, with a
``database`` or with ``plain_tables`` as its sources; ``loop`` and ``remap_loop`` run them. What is remembered is in
``memory_file``, what is put beside the logs in ``manifest``.
"""
