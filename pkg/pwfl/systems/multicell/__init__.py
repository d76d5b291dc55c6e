"""The system `multicell`: several base stations with interfering cells (Tavangaran, Chen, Yang, da Silva and Poor).

The package `beyond` contains what is not in the paper.
"""
