import { cidOf, RAW } from '@watchfire/pages/content'
import type { OpenPages } from '../ui/open-pages.ts'
import type { Site } from '../ui/site.ts'
import type { PictureEnvironment } from './picture-store.ts'
import { PICTURE_BYTES_MAX } from './picture-bounds.ts'
import { checkedPicture } from './picture.ts'
import { readPicture } from './protocol.ts'

const stay = () => {}

/** The picture store's environment in a browser: pictures are pages of this site. */
export function browserEnvironment(site: Site, openPages: OpenPages): PictureEnvironment {
  // A tab joins a topic only once, so the session of a page that is open already is reused and stays the page's.
  const openSession = (cid: string) => openPages.list.peek().find(({ session }) => readPicture(session.cid) === cid)?.session
  return {
    async share(cid, picture) {
      if (openSession(cid) !== undefined) return { close: stay }
      return site.share([{ path: 'picture', blob: picture }], { signal: new AbortController().signal, onProgress: stay })
    },
    open(cid) {
      const page = openSession(cid)
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
