/** A set of the latest `max` values. When it is full, the oldest is removed. */
export class RecentSet<Value> extends Set<Value> {
  readonly #max: number

  constructor(max: number) {
    super()
    this.#max = max
  }

  override add(value: Value): this {
    super.add(value)
    const [oldest] = this
    if (this.size > this.#max && oldest !== undefined) this.delete(oldest)
    return this
  }
}
