"""Translation of every RPC of the five services: generated structs in, broker values out."""
