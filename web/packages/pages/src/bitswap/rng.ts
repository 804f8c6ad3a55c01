const ALL_BITS = 64

/** A seeded random number generator (SplitMix64), the same as in the Rust core. Not for secrets. */
export class Rng {
  #state: bigint

  constructor(seed: bigint) {
    this.#state = seed
  }

  /** The next 64-bit number. */
  nextU64(): bigint {
    this.#state = BigInt.asUintN(ALL_BITS, this.#state + 0x9e37_79b9_7f4a_7c15n)
    let bits = this.#state
    bits = BigInt.asUintN(ALL_BITS, (bits ^ (bits >> 30n)) * 0xbf58_476d_1ce4_e5b9n)
    bits = BigInt.asUintN(ALL_BITS, (bits ^ (bits >> 27n)) * 0x94d0_49bb_1331_11ebn)
    return bits ^ (bits >> 31n)
  }
}
