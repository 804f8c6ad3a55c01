import type { Plugin } from 'vite'

/** The modules of the script that runs before the rest of the first load has arrived. */
export const EARLY = /\/app\/src\/(?:early|app\/early-socket)\.ts$/

/** The chunks that the early script preloads for a page. The first gets the open connection: it is the largest. */
const PAGE = ['page', 'home', 'connection']

/** The chunks that a page needs when its server is gone. The service worker keeps it with the files that index.html names. */
const GONE = ['away']

/**
 * Lets the early script run when it has arrived: without `async`, a script waits for the style sheet. Its element names the chunks of a
 * page. The script itself cannot name them, because they import it: the names contain hashes.
 */
export function earlyScript(): Plugin {
  return {
    name: 'early script',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler(html, { bundle = {} }) {
        const addressOf = (chunk: string) => {
          const name = Object.keys(bundle).find((each) => new RegExp(`^assets/${chunk}-[^/]+\\.js$`).test(each))
          if (name === undefined) throw new Error(`there is no chunk ${chunk}, which the early script preloads`)
          return `/${name}`
        }
        const marked = html.replace(
          'crossorigin src="/assets/early-',
          `async data-page="${PAGE.map(addressOf).join(' ')}" data-gone="${GONE.map(addressOf).join(' ')}" src="/assets/early-`,
        )
        if (marked === html) throw new Error('index.html has no early script')
        return marked
      },
    },
  }
}
