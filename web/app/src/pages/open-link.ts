import { pageAddress } from '@watchfire/pages/addresses'
import { parsePageLink, serversOfLink, withServers } from '@watchfire/pages/links'
import { nowhere } from '../messages/nowhere.ts'
import { navigate } from '../ui/location.ts'

/** Opens the page of a link of this server, or of a link that names this server. Returns why it cannot, or `null`. */
export function openLink(link: string): string | null {
  const { origin } = location
  const other = /^\s*https?:/i.test(link) && URL.canParse(link) ? new URL(link).origin : origin
  const page = parsePageLink(link, serversOfLink(link, other).includes(origin) ? other : origin)
  if (page === null) return nowhere('noLink')
  navigate(withServers(pageAddress(page.cid, page.filename, page.key, page.file), serversOfLink(link, origin)))
  return null
}
