"""The five published designs, one package each: policy, stages, writer, prompts and names all stand in that folder.

Come here if you know one of these designs and look for one of its names. A design imports what a policy of yours may
import, and nobody imports a design: its policy is found by name, through the entry points `tenfold.policies`.
"""
