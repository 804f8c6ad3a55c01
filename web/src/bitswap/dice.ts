const ALL_BITS = 64

/** Dice that fall the same way for the same seed (SplitMix64), here as in the Rust core. Not for secrets. */
export class Dice {
  #state: bigint

  constructor(seed: bigint) {
    this.#state = seed
  }

  /** A number of 64 bits. */
  throw(): bigint {
    this.#state = BigInt.asUintN(ALL_BITS, this.#state + 0x9e37_79b9_7f4a_7c15n)
    let bits = this.#state
    bits = BigInt.asUintN(ALL_BITS, (bits ^ (bits >> 30n)) * 0xbf58_476d_1ce4_e5b9n)
    bits = BigInt.asUintN(ALL_BITS, (bits ^ (bits >> 27n)) * 0x94d0_49bb_1331_11ebn)
    return bits ^ (bits >> 31n)
  }
}
