/** Folders of web pages as sites: on an origin of their own, out of this tab. */
export { siteOrigin } from './origin.ts'
export { isPage, SiteView } from './SiteView.tsx'
