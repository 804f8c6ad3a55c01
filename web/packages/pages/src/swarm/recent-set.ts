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
    const [first] = this.#values
    if (this.#values.size >= this.#max && first !== undefined) this.#values.delete(first)
    this.#values.add(value)
  }
}
