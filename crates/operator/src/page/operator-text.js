// Numbers, times and untrusted text, as the page shows them.

const CUT = 120

const BIDI_AND_INVISIBLE = /[\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/

/**
 * Shows control characters as pictures, and characters that reorder or hide text as their code points. Clients choose the
 * names of topics and users: after U+202E, "rooms:gpj.exe" would be read as "rooms:exe.jpg".
 */
export function visible(text) {
  let shown = ''
  for (const character of String(text)) {
    const code = /** @type {number} */ (character.codePointAt(0))
    if (code < 0x20) shown += String.fromCodePoint(0x2400 + code)
    else if (code === 0x7f) shown += '\u2421'
    else if ((code > 0x7f && code < 0xa0) || BIDI_AND_INVISIBLE.test(character)) {
      shown += `[U+${code.toString(16).toUpperCase().padStart(4, '0')}]`
    } else shown += character
  }
  return shown
}

/** The first characters of a text from a client, visible. A table shows this, and a detail the whole text. */
export function short(text, max = CUT) {
  // A character has at most two code units, so this much is always enough.
  const characters = [...String(text).slice(0, 2 * max + 2)]
  return characters.length > max ? `${visible(characters.slice(0, max).join(''))}…` : visible(characters.join(''))
}

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const CLOCK_MINUTES = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const DAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })
const DATE = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' })

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** Three significant digits, without trailing zeros. */
function digits(value) {
  if (Math.abs(value) >= 100) return COUNT.format(value)
  return String(Number(value.toPrecision(3)))
}

function bytes(value) {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), BYTE_UNITS.length - 1)
  return `${digits(value / 1024 ** power)} ${BYTE_UNITS[power]}`
}

function seconds(value) {
  if (value === 0) return '0 ms'
  if (value < 0.0001) return `${digits(value * 1e6)} µs`
  if (value < 1) return `${digits(value * 1000)} ms`
  return value < 120 ? `${digits(value)} s` : duration(value)
}

/** How the page writes values of each kind. */
const FORMATS = {
  count: (value) => COUNT.format(value),
  rate: (value) => `${digits(value)}/s`,
  bytes,
  byte_rate: (value) => `${bytes(value)}/s`,
  seconds,
  share: (value) => `${digits(100 * value)} %`,
  cores: (value) => `${digits(value)} ${value === 1 ? 'core' : 'cores'}`,
}

/** A value with its unit; `kind` is a key of `FORMATS`. A missing value is a dash. */
export function format(kind, value) {
  return Number.isFinite(value) ? FORMATS[kind](value) : '–'
}

/** A value on an axis, where space is short. */
export function formatTick(kind, value) {
  if (kind === 'count' || kind === 'rate' || kind === 'cores') {
    const unit = kind === 'rate' ? '/s' : ''
    if (value >= 1e6) return `${digits(value / 1e6)}M${unit}`
    if (value >= 1e4) return `${digits(value / 1e3)}k${unit}`
    return `${digits(value)}${unit}`
  }
  return format(kind, value)
}

/** Such as "3 min" or "2 d 4 h". */
export function duration(value) {
  if (!Number.isFinite(value)) return '–'
  const whole = Math.max(0, Math.floor(value))
  const [days, hours, minutes] = [Math.floor(whole / 86_400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60]
  if (days > 0) return `${days} d ${hours} h`
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min` : `${whole} s`
}

/** A time of the day, with the date unless it is today. */
export function clock(ms, nowMs = Date.now()) {
  if (!Number.isFinite(ms)) return '–'
  const time = CLOCK.format(ms)
  return isSameDay(ms, nowMs) ? time : `${DAY.format(ms)}, ${time}`
}

export function clockMinutes(ms) {
  return CLOCK_MINUTES.format(ms)
}

export function date(ms) {
  return DATE.format(ms)
}

function isSameDay(left, right) {
  return new Date(left).toDateString() === new Date(right).toDateString()
}

/** A count with its noun, such as "1 trouble" or "2 troubles". */
export function counted(count, singular, plural = `${singular}s`) {
  return `${COUNT.format(count)} ${count === 1 ? singular : plural}`
}
