/** The time between two reports, in milliseconds. Each is drawn, and a page may have thousands of small files. */
const REPORT_MS = 100

/** Reports how many bytes of a new page are hashed: from time to time, and at the end. */
export class HashProgress {
  readonly #bytesTotal: number
  readonly #report: ((progress: { bytesDone: number; bytesTotal: number }) => void) | undefined
  #bytesDone = 0
  #reportedAt = -Infinity

  constructor(bytesTotal: number, report?: (progress: { bytesDone: number; bytesTotal: number }) => void) {
    this.#bytesTotal = bytesTotal
    this.#report = report
  }

  add(bytes: number): void {
    this.#bytesDone += bytes
    const now = performance.now()
    if (this.#bytesDone < this.#bytesTotal && now - this.#reportedAt < REPORT_MS) return
    this.#reportedAt = now
    this.#report?.({ bytesDone: this.#bytesDone, bytesTotal: this.#bytesTotal })
  }
}
