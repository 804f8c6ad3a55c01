// Figures of one page over one line, in the model of `crates/page-client/src/direct/line.rs`: the same in each run.

import { execFileSync } from 'node:child_process'

import { round } from './counts.mjs'

const BAND = 0.03

/**
 * 20 MB over 100 Mbit/s and 25 ms one way, with a queue of 512 KiB.
 *
 * @param {string} program
 * @returns {import('./compare.mjs').Figure[]}
 */
export function carry(program) {
  const { wire, again, time } = JSON.parse(execFileSync(program, ['path'], { encoding: 'utf8' }))
  const figure = (what, unit, value) => ({ figure: `path: ${what}`, unit, value: round(value), band: BAND, compiled: false })
  return [
    figure('bytes on the wire', 'a byte of content', wire),
    figure('bytes sent again', 'a byte of content', again),
    figure('last completion', 'times the bound', time),
  ]
}
