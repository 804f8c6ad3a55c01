/**
 * Long work in short tasks. A page's thread handles a press between two tasks, and on a phone one task for 10,000 files takes seconds.
 * So work on many items is a generator that pauses, and `inTasks` goes on with it in the next task. The number of items in a task is
 * bounded, and not the time: the clock of a browser is coarse, and a bound on items can be tested.
 */

/** Files, links or names that one task handles at most. Each takes up to 10 µs on a desktop computer, and ten times that on a phone. */
export const ITEMS_PER_TASK = 250

/** Work that pauses after at most `ITEMS_PER_TASK` items, and its result. */
export type PausingWork<Result> = Generator<void, Result, void>

/** Counts the items of one work. The parts of the work share it: each of thousands of folders may have only a few files. */
export class ItemCount {
  #items = 0

  /** Counts the items that are handled next. Returns whether the work must pause before them. */
  isPauseDue(items = 1): boolean {
    const isDue = this.#items + items > ITEMS_PER_TASK
    this.#items = isDue ? items : this.#items + items
    return isDue
  }
}

/** Does work in as many tasks as it needs. The first one is the caller's. Rejects between two tasks if the signal is aborted. */
export async function inTasks<Result>(work: PausingWork<Result>, signal?: AbortSignal): Promise<Result> {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    await nextTask()
    signal?.throwIfAborted()
  }
}

/** Does work in one task, for a caller that cannot wait. */
export function inOneTask<Result>(work: PausingWork<Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

/** Callers of `nextTask`, in order: each message of the channel is for the first of them. */
const waiting: (() => void)[] = []
let sendMessage: (() => void) | null = null

/** Resolves in a task of its own. Unlike a timer, it is not delayed in a tab that nobody looks at. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    sendMessage ??= openChannel()
    sendMessage()
  })
}

/** One channel for all callers: a new one takes about as long as a short task. */
function openChannel(): () => void {
  const { port1, port2 } = new MessageChannel()
  // Node would run as long as a port is open.
  const port: MessagePort & { ref?(): void; unref?(): void } = port1
  port.onmessage = () => {
    if (waiting.length === 1) port.unref?.()
    waiting.shift()?.()
  }
  return () => {
    port.ref?.()
    port2.postMessage(null)
  }
}

/** Calls `each` for every item. */
export function* forEachItem<Item>(items: Iterable<Item>, each: (item: Item) => void, count = new ItemCount()): PausingWork<void> {
  for (const item of items) {
    if (count.isPauseDue()) yield
    each(item)
  }
}

/** Returns the items in order; equal ones stay in the order that they have. Short runs are sorted, and then merged in pairs. */
export function* sorted<Item extends NonNullable<unknown>>(
  items: readonly Item[],
  compare: (a: Item, b: Item) => number,
  count = new ItemCount(),
): PausingWork<Item[]> {
  if (items.length <= ITEMS_PER_TASK) {
    if (count.isPauseDue(items.length)) yield
    return items.toSorted(compare)
  }
  const middle = items.length >> 1
  const before = yield* sorted(items.slice(0, middle), compare, count)
  const after = yield* sorted(items.slice(middle), compare, count)
  const merged: Item[] = []
  for (let a = 0, b = 0; a + b < items.length; ) {
    if (count.isPauseDue()) yield
    const [first, second] = [before[a], after[b]]
    const isFirst = second === undefined || (first !== undefined && compare(first, second) <= 0)
    const next = isFirst ? before[a++] : after[b++]
    if (next !== undefined) merged.push(next)
  }
  return merged
}
