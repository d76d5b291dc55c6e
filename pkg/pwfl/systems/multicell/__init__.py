"""The system `multicell`: several base stations whose cells interfere (Tavangaran, Chen, Yang, da Silva and Poor).

What is not the paper's is in `beyond`.
"""
