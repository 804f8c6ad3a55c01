import { describe, expect, it } from 'vitest'
import { forEachItem, inOneTask, inTasks, ItemCount, ITEMS_PER_TASK, sorted, type PausingWork } from './tasks.ts'

/** The number of items that `handled` has grown by in each task of the work. */
function itemsByTask(work: PausingWork<unknown>, handled: () => number): number[] {
  const counts: number[] = []
  for (let done = false; !done; ) {
    const before = handled()
    done = work.next().done === true
    counts.push(handled() - before)
  }
  return counts
}

const numbers = (count: number) => Array.from({ length: count }, (_, i) => (i * 7919) % count)

describe('work on many items', () => {
  it('handles a bounded number of them in a task', () => {
    let handled = 0
    const work = forEachItem(numbers(10_000), () => handled++)
    const counts = itemsByTask(work, () => handled)
    expect(Math.max(...counts)).toBe(ITEMS_PER_TASK)
    expect(handled).toBe(10_000)
  })

  it('is bounded in all its parts together', () => {
    let handled = 0
    const work = (function* () {
      const count = new ItemCount()
      for (let part = 0; part < 1000; part++) {
        yield* sorted([3, 1, 2], (a, b) => a - b, count)
        yield* forEachItem([1, 2, 3], () => handled++, count)
      }
    })()
    expect(Math.max(...itemsByTask(work, () => handled))).toBeLessThanOrEqual(ITEMS_PER_TASK)
    expect(handled).toBe(3000)
  })

  it('lets other tasks run in between, and stops when it is aborted', async () => {
    const stop = new AbortController()
    let handled = 0
    setTimeout(() => stop.abort(new Error('stopped')))
    const endless = forEachItem(
      (function* () {
        for (;;) yield 1
      })(),
      () => handled++,
    )
    await expect(inTasks(endless, stop.signal)).rejects.toThrow('stopped')
    expect(handled % ITEMS_PER_TASK).toBe(0)
  })
})

describe('sorting', () => {
  it('compares a bounded number of pairs in a task', () => {
    const items = numbers(10_007)
    let compared = 0
    const compare = (a: number, b: number) => {
      compared++
      return a - b
    }
    const counts = itemsByTask(sorted(items, compare), () => compared)
    expect(Math.max(...counts)).toBeLessThanOrEqual(ITEMS_PER_TASK * Math.ceil(Math.log2(ITEMS_PER_TASK)))
    expect(counts.length).toBeGreaterThan(20)
  })

  it.each([0, 1, 2, ITEMS_PER_TASK, ITEMS_PER_TASK + 1, 3 * ITEMS_PER_TASK + 2, 10_007])(
    'gives the order of the platform for %i items',
    (count) => {
      const items = numbers(count)
      expect(inOneTask(sorted(items, (a, b) => a - b))).toEqual([...items].sort((a, b) => a - b))
    },
  )

  it('leaves equal items in the order that they have', () => {
    const items = numbers(3000).map((number, at) => ({ key: number % 5, at }))
    const byKey = (a: { key: number }, b: { key: number }) => a.key - b.key
    expect(inOneTask(sorted(items, byKey))).toEqual([...items].sort(byKey))
  })
})
