"""Bytes: row types and the canonical form of rows, the one published encoding, logs in memory, in files, in Kafka.

:mod:`~cdcv2.logs.kafka` needs the extra ``kafka``; everything else comes with the base install.
"""
