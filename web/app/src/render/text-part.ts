/** The text of a file, as far as it has arrived. */
export interface TextPart {
  readonly text: string
  /** Whether it is the text of the whole file. */
  readonly isWhole: boolean
  /** The size of the whole file. */
  readonly bytes: number
}
