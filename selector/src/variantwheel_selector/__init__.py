"""Finds out what a machine can run and picks the wheel variant that fits it."""

# In a selector sdist most modules stand in one archive, because pip and uv take longer to unpack a
# hundred files than everything else here takes (`package_copy`). Elsewhere there is no such file.
__path__.append(f"{__path__[0]}/modules.zip/variantwheel_selector")
