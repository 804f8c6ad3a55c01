// The values of the last minutes or hours. It keeps the rows of its window and no more, so that a page that is open for a
// week has the memory of one that is open for 15 minutes.

export class HistoryWindow {
  stepMs
  windowMs
  #columns = []
  #index = new Map()
  #rows = []

  constructor(stepMs, windowMs) {
    this.stepMs = stepMs
    this.windowMs = windowMs
  }

  /** The rows in order of time: each is a time in ms, then a value or null for each column. */
  get rows() {
    return this.#rows
  }

  /** The time of the newest row, or 0. */
  get lastMs() {
    return this.#rows.at(-1)?.[0] ?? 0
  }

  /** Where the values of a column are in a row, or undefined when the server does not have the column. */
  indexOf(column) {
    return this.#index.get(column)
  }

  /**
   * Adds the rows that are newer than the last. Returns false when the columns have changed, as after an upgrade: then
   * the window is empty, and the caller asks again.
   */
  merge({ columns, rows }) {
    if (!Array.isArray(columns) || !Array.isArray(rows)) throw new TypeError('a history needs columns and rows')
    if (columns.join() !== this.#columns.join()) {
      const hadRows = this.#rows.length > 0
      this.clear()
      this.#columns = columns
      this.#index = new Map(columns.map((column, index) => [column, index + 1]))
      if (hadRows) return false
    }
    for (const row of rows) if (row[0] > this.lastMs) this.#rows.push(row)
    this.#dropOld()
    return true
  }

  /** The rows for a spreadsheet, and for `watchfire report`: times in UTC, and an empty cell for a missing value. */
  csv() {
    const lines = this.#rows.map(([ms, ...values]) => [new Date(ms).toISOString(), ...values].join())
    return [`time,${this.#columns.join()}`, ...lines, ''].join('\n')
  }

  #dropOld() {
    const oldest = this.lastMs - this.windowMs
    const outside = this.#rows.findIndex(([ms]) => ms >= oldest)
    const tooMany = this.#rows.length - Math.ceil(this.windowMs / this.stepMs) - 1
    this.#rows.splice(0, Math.max(outside, tooMany, 0))
  }

  clear() {
    this.#rows = []
    this.#columns = []
    this.#index.clear()
  }
}

/** The newest, lowest and highest value of a column in rows; null where there is none. */
export function summarize(rows, index) {
  let [lowest, highest] = [null, null]
  for (const row of rows) {
    const value = row[index]
    if (!Number.isFinite(value)) continue
    if (lowest === null || value < lowest) lowest = value
    if (highest === null || value > highest) highest = value
  }
  return { now: rows.at(-1)?.[index] ?? null, lowest, highest }
}
