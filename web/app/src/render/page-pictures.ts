import { useEffect, useState } from 'preact/hooks'
import type { DirectoryFile } from '../ui/site.ts'
import { pictureType, SNIFFED_BYTES } from '@watchfire/pages/files'
import { Turns, wholeOf } from '../files/reading.ts'

/** Pictures of a text that are loaded at the same time, in the order of the text. */
const AT_A_TIME = 4

/** The pictures of a text: each is loaded once, and has an object URL until `close`. */
export class PagePictures {
  readonly #addresses = new Map<DirectoryFile, Promise<string | null>>()
  readonly #made: string[] = []
  readonly #stop = new AbortController()
  readonly #turns = new Turns(AT_A_TIME)

  /** The address of a picture once all of it is here; `null` if it is not a picture or cannot be loaded. */
  addressOf(file: DirectoryFile): Promise<string | null> {
    const known = this.#addresses.get(file)
    if (known !== undefined) return known
    const address = this.#turns.take(() => this.#load(file), this.#stop.signal).catch(() => null)
    this.#addresses.set(file, address)
    return address
  }

  /** Stops all loads, and revokes the addresses. */
  close(): void {
    this.#stop.abort(new DOMException('the text is not shown any more', 'AbortError'))
    for (const address of this.#made) URL.revokeObjectURL(address)
  }

  async #load(file: DirectoryFile): Promise<string | null> {
    const { signal } = this.#stop
    const blob = await wholeOf(file, signal)
    const mime = pictureType(file.path, new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer()))
    signal.throwIfAborted()
    if (mime === null) return null
    const address = URL.createObjectURL(blob.slice(0, blob.size, mime))
    this.#made.push(address)
    return address
  }
}

/** The pictures of a text beside these files; `null` before the first effect. They are closed with the view. */
export function usePagePictures(files: readonly DirectoryFile[]): PagePictures | null {
  const [pictures, setPictures] = useState<PagePictures | null>(null)
  useEffect(() => {
    const made = new PagePictures()
    setPictures(made)
    return () => made.close()
  }, [files])
  return pictures
}
