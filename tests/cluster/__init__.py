"""Tests that need several brokers."""
