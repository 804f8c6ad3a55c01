// Compares what was counted with the landed values.
//
// A value is compared with the one that landed, however many commits ago, and not with the value of the commit before. So twenty
// changes of half a percent each are found like one of ten. For the same reason, accepting a drift keeps the landed values of all figures
// that are within their bands.

/**
 * `compiled` figures depend on the compiler. Those of a running server are measured in `runs`, whose noise is sometimes wider than the band.
 *
 * @typedef {{ figure: string, unit: string, value: number, band: number, compiled: boolean, runs?: number[] }} Figure
 */
/** @typedef {Figure & { landed: number | undefined, change: number, verdict: 'same' | 'better' | 'WORSE' | 'new' | 'gone' }} Row */

/**
 * Of each figure, less is better. The band of a landed figure counts.
 *
 * @param {Figure[]} landed
 * @param {Figure[]} counted
 * @returns {Row[]}
 */
export function compare(landed, counted) {
  const before = new Map(landed.map((figure) => [figure.figure, figure]))
  const rows = counted.map((figure) => {
    const old = before.get(figure.figure)
    before.delete(figure.figure)
    if (!old) return { ...figure, landed: undefined, change: 0, verdict: 'new' }
    const change = figure.value === old.value ? 0 : figure.value / old.value - 1
    const verdict = isBeyond(figure.value, old) ? (change > 0 ? 'WORSE' : 'better') : 'same'
    return { ...figure, band: old.band, landed: old.value, change, verdict }
  })
  const gone = [...before.values()].map((figure) => ({ ...figure, landed: figure.value, value: Number.NaN, change: 0, verdict: 'gone' }))
  return /** @type {Row[]} */ ([...rows, ...gone])
}

/**
 * Whether a value is beyond the band of the landed figure.
 *
 * @param {number} value
 * @param {Figure} landed
 */
export function isBeyond(value, landed) {
  return value !== landed.value && Math.abs(value / landed.value - 1) > landed.band
}

/**
 * The values that land: new ones of figures beyond their bands, and of all that the compiler changes when `isOtherBuilder` is set.
 *
 * @param {Row[]} rows
 * @param {boolean} isOtherBuilder
 * @returns {Figure[]}
 */
export function accepted(rows, isOtherBuilder) {
  return rows
    .filter(({ verdict }) => verdict !== 'gone')
    .map((row) => {
      const isKept = row.verdict === 'same' ? !(isOtherBuilder && row.compiled) : isNoise(row)
      return { figure: row.figure, unit: row.unit, value: isKept ? row.landed : row.value, band: row.band, compiled: row.compiled }
    })
}

/**
 * Whether a gain may be chance: in one of the runs there was none. Such a gain does not land, or later runs would be worse than it.
 *
 * @param {Row} row
 */
export function isNoise({ verdict, landed, runs = [] }) {
  return verdict === 'better' && runs.some((value) => value >= landed)
}

/**
 * Whether a row fails the gate. A gain fails too, because a later loss of it would be invisible. A gain of a measured figure
 * does not: it may be noise.
 *
 * @param {Row} row
 * @param {{ isSameBuilder: boolean, isCi: boolean }} where
 */
export function fails({ verdict, compiled, runs }, { isSameBuilder, isCi }) {
  if (verdict === 'same' || (compiled && !isSameBuilder)) return false
  if (verdict === 'gone') return isCi
  return !(runs && verdict === 'better')
}

/** @param {Row[]} rows */
export function table(rows) {
  const lines = rows.map(({ figure, unit, landed, value, change, band, verdict }) => [
    `${figure}, ${unit}`,
    number(landed),
    number(value),
    landed === undefined || Number.isNaN(value) ? '' : percent(change),
    `${(band * 100).toFixed(0)} %`,
    verdict === 'same' ? '' : verdict,
  ])
  const all = [['figure', 'landed', 'now', 'change', 'band', ''], ...lines]
  const widths = all[0].map((_, column) => Math.max(...all.map((line) => line[column].length)))
  const pad = (text, column) => (column === 0 ? text.padEnd(widths[column]) : text.padStart(widths[column]))
  return all.map((line) => line.map(pad).join('  ').trimEnd()).join('\n')
}

export function percent(change) {
  if (!Number.isFinite(change)) return 'from 0'
  return `${change > 0 ? '+' : ''}${(change * 100).toFixed(1)} %`
}

/** Four digits are more than a band needs. */
export function number(value) {
  if (value === undefined || Number.isNaN(value)) return '-'
  if (value === 0) return '0'
  return Number(value.toPrecision(value >= 1000 ? Math.ceil(Math.log10(value)) : 4)).toLocaleString('en-US', { maximumFractionDigits: 4 })
}
