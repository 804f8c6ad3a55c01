/** A set of the latest `max` values. When it is full, the oldest is removed. */
export class RecentSet<Value> {
  readonly #max: number
  readonly #values = new Set<Value>()

  constructor(max: number) {
    this.#max = max
  }

  has(value: Value): boolean {
    return this.#values.has(value)
  }

  add(value: Value): void {
    this.#values.add(value)
    const [oldest] = this.#values
    if (this.#values.size > this.#max && oldest !== undefined) this.#values.delete(oldest)
  }

  /** Removes a value. Returns whether it was in the set. */
  delete(value: Value): boolean {
    return this.#values.delete(value)
  }
}
