import { sizeText } from '../ui/sizes.ts'

/** Text beyond this is for saving: a browser that lays out more of it stops answering. */
export const TEXT_SHOWN_BYTES_MAX = 2 * 1024 * 1024

export interface ShownText {
  text: string
  /** A sentence on what is not shown, `null` when all is. */
  cut: string | null
}

/** The text of a file, or the first part of a long one. */
export async function textOf(blob: Blob): Promise<ShownText> {
  if (blob.size <= TEXT_SHOWN_BYTES_MAX) return { text: await blob.text(), cut: null }
  const bytes = await blob.slice(0, TEXT_SHOWN_BYTES_MAX).arrayBuffer()
  return {
    // Streaming leaves out a last letter that is cut in two.
    text: new TextDecoder().decode(bytes, { stream: true }),
    cut: `These are the first ${sizeText(TEXT_SHOWN_BYTES_MAX)} of ${sizeText(blob.size)}. Save it to read on.`,
  }
}
