/** The latest of some numbers; beyond `max`, the one that came first is forgotten. */
export class RecentNumbers {
  readonly #max: number
  readonly #numbers = new Set<number>()

  constructor(max: number) {
    this.#max = max
  }

  has(number: number): boolean {
    return this.#numbers.has(number)
  }

  add(number: number): void {
    const [first] = this.#numbers
    if (this.#numbers.size >= this.#max && first !== undefined) this.#numbers.delete(first)
    this.#numbers.add(number)
  }
}
