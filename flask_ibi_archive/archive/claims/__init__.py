"""The claims of an Archive: what it says it holds, signed, in an order that never changes.

Source: federation CL-1 to CL-6.
"""
