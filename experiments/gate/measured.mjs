// Measures a running server. Its figures differ from run to run, so one run alone neither fails the gate nor lands.

import { isBeyond } from './compare.mjs'

/** Runs of a figure that is new, or whose first run is beyond the band. The middle one of them is its value. */
export const RUNS = 5

/**
 * One figure of a server. `measure` is one run; it resolves with `undefined` where the figure cannot be measured.
 *
 * @typedef {{ figure: string, unit: string, band: number, measure: () => Promise<number | undefined> }} Meter
 */

/**
 * @param {Meter[]} meters
 * @param {import('./compare.mjs').Figure[]} landed
 * @returns {Promise<import('./compare.mjs').Figure[]>}
 */
export async function measureAll(meters, landed) {
  const figures = []
  for (const { figure, unit, band, measure } of meters) {
    const old = landed.find((one) => one.figure === figure)
    const first = await measure()
    if (first === undefined) continue
    const runs = [first]
    const isUnsure = old === undefined || isBeyond(first, old)
    while (isUnsure && runs.length < RUNS) {
      const next = await measure()
      if (next === undefined) throw new Error(`${figure} can no longer be measured`)
      runs.push(next)
    }
    figures.push({ figure, unit, value: median(runs), band, compiled: false, runs })
  }
  return figures
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}
