"""Tests of each way to install svcserver: from a clean system to a scripted session."""
