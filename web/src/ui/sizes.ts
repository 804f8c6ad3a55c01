const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** A size for people: three digits at most, in the units that programmers and disks agree on. */
export function sizeText(bytes: number): string {
  if (bytes === 1) return '1 byte'
  let value = bytes
  let unit = 0
  while (unit < UNITS.length - 1 && rounded(value) >= 1024) {
    value /= 1024
    unit += 1
  }
  return `${rounded(value)} ${UNITS[unit]}`
}

function rounded(value: number): number {
  return value < 10 ? Math.round(value * 10) / 10 : Math.round(value)
}

/** How much of it is there, in whole percent; 100 only when all is. */
export function percentOf(part: number, whole: number): number {
  if (whole <= 0 || part >= whole) return 100
  return Math.min(99, Math.floor((part / whole) * 100))
}
