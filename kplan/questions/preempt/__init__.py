"""Whom would a pod evict."""
