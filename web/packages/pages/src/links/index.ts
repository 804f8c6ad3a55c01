/** Links to pages: what people paste, and what is found in it. The addresses of the app's first load are in `addresses.ts`. */
export type { PageLink } from './addresses.ts'
export { parseKeyInput } from './key-input.ts'
export { parsePageLink } from './page-link.ts'
export { readNeighbours, SERVERS_MAX, serversOfLink, withServers, type Neighbour } from './servers.ts'
