/** A part of a file: its first byte, and the one after its last. */
export interface Range {
  readonly from: number
  readonly to: number
}

/**
 * Parses a `Range` header with one range (RFC 9110, 14.2). `null` means the whole file: there is no header, or it is
 * malformed or has several ranges, which a server may ignore.
 */
export function parseRange(header: string | null, size: number): Range | 'unsatisfiable' | null {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '') ?? []
  if (first === undefined || last === undefined || first + last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { from: size - length, to: size }
  }
  const from = Number(first)
  if (last !== '' && Number(last) < from) return null
  if (from >= size) return 'unsatisfiable'
  return { from, to: last === '' ? size : Math.min(Number(last) + 1, size) }
}
