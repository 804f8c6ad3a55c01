import { pageAddress } from '@watchfire/pages/addresses'
import { parsePageLink } from '@watchfire/pages/links'
import { nowhere } from '../messages/nowhere.ts'
import { navigate } from '../ui/location.ts'

/** Opens the page of a link. Returns why it cannot, or `null`. */
export function openLink(link: string): string | null {
  const page = parsePageLink(link, location.origin)
  if (page === null) return nowhere('noLink')
  navigate(pageAddress(page.cid, page.filename, page.key, page.file))
  return null
}
