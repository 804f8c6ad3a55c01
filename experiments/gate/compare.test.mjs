import assert from 'node:assert/strict'
import test from 'node:test'

import { accepted, compare, fails, number, table } from './compare.mjs'

const figure = (name, value, band = 0.03) => ({ figure: name, unit: 'a block', value, band, compiled: true })
const verdicts = (landed, counted) => compare(landed, counted).map((row) => row.verdict)

test('a drift beyond the band is worse or better, and one within it is neither', () => {
  const landed = [figure('more', 100), figure('less', 100), figure('a bit', 100)]
  assert.deepEqual(verdicts(landed, [figure('more', 103.1), figure('less', 96.9), figure('a bit', 102.9)]), ['WORSE', 'better', 'same'])
})

test('the band is the landed one, so that a change of the program cannot widen it', () => {
  assert.deepEqual(verdicts([figure('exchange', 100)], [figure('exchange', 110, 0.5)]), ['WORSE'])
})

test('anything is worse than nothing', () => {
  assert.deepEqual(verdicts([figure('allocations', 0)], [figure('allocations', 0.1)]), ['WORSE'])
  assert.deepEqual(verdicts([figure('allocations', 0)], [figure('allocations', 0)]), ['same'])
})

test('a figure that appears or disappears is shown', () => {
  assert.deepEqual(verdicts([figure('old', 1)], [figure('young', 1)]), ['new', 'gone'])
})

test('a loss and a gain fail, but not the gain of a figure that is measured', () => {
  const here = { isSameBuilder: true, isCi: true }
  const row = (landed, value, measured) =>
    compare([figure('memory', landed)], [{ ...figure('memory', value), compiled: !measured, ...(measured && { runs: [value] }) }])[0]
  assert.equal(fails(row(100, 120, true), here), true)
  assert.equal(fails(row(100, 80, true), here), false)
  assert.equal(fails(row(100, 100, true), here), false)
  assert.equal(fails(row(100, 120, false), here), true)
  assert.equal(fails(row(100, 80, false), here), true)
})

test('another compiler makes only measured and simulated figures fail, and a missing figure fails in CI', () => {
  const elsewhere = { isSameBuilder: false, isCi: false }
  const [compiled] = compare([figure('join', 100)], [figure('join', 120)])
  assert.equal(fails(compiled, elsewhere), false)
  assert.equal(fails({ ...compiled, compiled: false }, elsewhere), true)
  const [gone] = compare([figure('join', 100)], [])
  assert.equal(fails(gone, { isSameBuilder: true, isCi: true }), true)
  assert.equal(fails(gone, { isSameBuilder: true, isCi: false }), false)
})

test('accepting a drift keeps the values of other figures, so that they cannot creep', () => {
  const rows = compare(
    [figure('worse', 100), figure('same', 100), figure('old', 1)],
    [figure('worse', 120), figure('same', 102), figure('young', 5)],
  )
  const values = accepted(rows, false).map(({ figure, value }) => [figure, value])
  assert.deepEqual(values, [
    ['worse', 120],
    ['same', 100],
    ['young', 5],
  ])
})

test('after a change of the compiler, all that it changes lands, and nothing else', () => {
  const simulated = { ...figure('copies', 100), compiled: false }
  const rows = compare([figure('join', 100), simulated], [figure('join', 102), { ...simulated, value: 101 }])
  assert.deepEqual(
    accepted(rows, true).map(({ value }) => value),
    [102, 100],
  )
})

test('the table shows both values and the change', () => {
  const rows = compare([figure('exchange: instructions', 88_000)], [figure('exchange: instructions', 96_800)])
  assert.match(table(rows), /exchange: instructions, a block {2}88,000 {2}96,800 {2}\+10\.0 % {3}3 % {2}WORSE/)
})

test('numbers have four digits, or all of their integer part', () => {
  assert.deepEqual([0, 1.23456, 0.000123456, 123456.7, 1234.5].map(number), ['0', '1.235', '0.0001', '123,457', '1,235'])
})
