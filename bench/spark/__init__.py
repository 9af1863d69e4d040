"""Spark on Everlog: our source and sink beside Spark's own connector for Kafka."""
