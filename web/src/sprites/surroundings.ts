import { cidOf, RAW } from '../content/index.ts'
import type { Hearth } from '../ui/hearth.ts'
import type { Site } from '../ui/site.ts'
import type { Surroundings } from './album.ts'
import { PICTURE_BYTES_MAX } from './picture-bounds.ts'
import { checkedPicture } from './picture.ts'
import { readPicture } from './throw.ts'

const stay = () => {}

/** The album's world in a browser: pictures are pages of this site. */
export function surroundingsOf(site: Site, hearth: Hearth): Surroundings {
  // A tab is on a topic once. A page that it keeps already stays the page's, whoever throws it as a picture.
  const lit = (cid: string) => hearth.kept.peek().find(({ session }) => readPicture(session.cid) === cid)?.session
  return {
    async kindle(cid, picture) {
      if (lit(cid) !== undefined) return { close: stay }
      return site.kindle([{ path: 'picture', blob: picture }], { signal: new AbortController().signal, onProgress: stay })
    },
    open(cid) {
      const page = lit(cid)
      return page === undefined ? site.open(cid, PICTURE_BYTES_MAX) : { state: page.state, close: stay }
    },
    cidOf: async (bytes) => (await cidOf(RAW, bytes)).key,
    check: checkedPicture,
    addresses: URL,
    after(milliseconds, callback) {
      const timer = setTimeout(callback, milliseconds)
      return () => clearTimeout(timer)
    },
  }
}
