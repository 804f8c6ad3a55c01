import { part } from './part.ts'

const text = part('sizes', {
  bytes: { '=1': '1 byte', other: '{count} bytes' },
  kib: '{n} KiB',
  mib: '{n} MiB',
  gib: '{n} GiB',
  tib: '{n} TiB',
  speed: '{size}/s',
  seconds: { other: '{count} s' },
})

const LARGER = ['kib', 'mib', 'gib', 'tib'] as const

/** A size with about three digits, in binary units. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return text('bytes', { count: Math.round(bytes) })
  let value = bytes / 1024
  let unit = 0
  while (unit < LARGER.length - 1 && rounded(value) >= 1024) {
    value /= 1024
    unit += 1
  }
  return text(LARGER[unit] ?? 'tib', { n: rounded(value) })
}

/** Bytes per second. */
export function speedText(bytesPerSecond: number): string {
  return text('speed', { size: sizeText(bytesPerSecond) })
}

/** A short wait, such as "3 s". */
export function secondsText(milliseconds: number): string {
  return text('seconds', { count: Math.max(1, Math.ceil(milliseconds / 1000)) })
}

function rounded(value: number): number {
  return value < 10 ? Math.round(value * 10) / 10 : Math.round(value)
}
