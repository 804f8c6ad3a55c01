import { nowhere } from '../messages/nowhere.ts'
import { navigate } from '../ui/location.ts'
import { parsePageLink } from '../ui/page-link.ts'
import { fileFragment, pageAddress } from '../ui/route.ts'

/** Opens the page of a link. Returns why it cannot, or `null`. */
export function openLink(link: string): string | null {
  const page = parsePageLink(link, location.origin)
  if (page === null) return nowhere('noLink')
  const address = pageAddress(page.cid, page.filename, page.key)
  navigate(page.file === null ? address : `${address.replace(/#.*$/, '')}${fileFragment(page.file, page.key)}`)
  return null
}
