/** The bytes that a request's `Range` wants, from and to before; `null` for all, `'beyond'` when there are none. */
export function rangeOf(header: string | null, size: number): { from: number; to: number } | 'beyond' | null {
  // Several ranges at once are answered with the whole, as is allowed.
  const asked = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '')
  if (asked === null) return null
  const [, first = '', last = ''] = asked
  if (first === '' && last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'beyond' : { from: size - length, to: size }
  }
  const from = Number(first)
  const to = last === '' ? size : Math.min(Number(last) + 1, size)
  if (from >= size) return 'beyond'
  return from >= to ? null : { from, to }
}
