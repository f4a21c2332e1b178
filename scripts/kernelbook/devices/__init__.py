"""GPUs by the name that the driver reports: rates of compute, memory and links from data sheets.

In: a device's name. Out: a `DataSheet`, and the rate of NVLink between some of them.
"""

from kernelbook.devices.data_sheets import DATA_SHEETS, RECORDED, DataSheet, link_rate

__all__ = ["DATA_SHEETS", "RECORDED", "DataSheet", "link_rate"]
