"""Names that are known in lower case too: languages, tools, formats, places, makers. One is never the other."""

from __future__ import annotations

from caches.guards.tables import words

TOOLS = words(
    """
    python java javascript typescript ruby perl php rust golang kotlin scala haskell erlang elixir clojure fortran cobol
    pascal matlab lua groovy ocaml prolog c++ c# f# objective-c vb vba bash powershell zsh awk sql mysql postgresql postgres
    sqlite mongodb redis cassandra mariadb dynamodb elasticsearch neo4j snowflake bigquery hadoop kafka rabbitmq django flask
    fastapi rails laravel symfony react angular vue svelte nextjs next.js nodejs node.js deno jquery tensorflow pytorch keras
    numpy pandas scipy sklearn scikit-learn matplotlib seaborn docker kubernetes podman terraform ansible jenkins github
    gitlab bitbucket git svn mercurial aws azure gcp heroku vercel netlify nginx apache tomcat linux windows macos ubuntu
    debian fedora centos android ios iphone ipad firefox vim emacs vscode eclipse pycharm intellij powerpoint photoshop figma
    jira trello asana whatsapp telegram wechat skype html css sass less tailwind bootstrap flexbox xml json yaml toml csv tsv
    pdf docx xlsx parquet avro protobuf markdown latex jpeg jpg png gif svg webp mp3 mp4 wav flac avi mkv zip tar gzip http
    https ftp ssh tcp udp smtp imap dns graphql grpc websocket oauth jwt saml ldap junit pytest jest mocha selenium cypress
    playwright webpack vite npm yarn pnpm pip conda maven gradle chatgpt gpt claude gemini llama mistral bert openai anthropic
    huggingface
    """
)
PLACES = words(
    """
    afghanistan algeria america argentina australia austria bangladesh belgium brazil britain bulgaria cambodia canada china
    colombia croatia cuba cyprus denmark egypt england estonia ethiopia finland france germany ghana greece hungary iceland
    india indonesia iran iraq ireland israel italy jamaica japan kenya korea kuwait latvia lebanon libya lithuania luxembourg
    malaysia malta mexico mongolia morocco myanmar nepal netherlands newzealand nigeria norway pakistan panama peru
    philippines poland portugal qatar romania russia saudiarabia scotland serbia singapore slovakia slovenia somalia
    southafrica southkorea northkorea spain srilanka sudan sweden switzerland syria taiwan tanzania thailand tunisia uganda uk
    ukraine uruguay usa venezuela vietnam wales yemen zambia zimbabwe amsterdam athens bangkok barcelona beijing berlin boston
    brighton bristol brussels budapest cairo chicago copenhagen dallas delhi dubai dublin edinburgh frankfurt geneva glasgow
    hamburg helsinki hongkong houston istanbul jakarta kyoto lagos leeds lima lisbon liverpool london losangeles lyon madrid
    manchester melbourne milan montreal moscow mumbai munich nairobi naples newyork nyc osaka oslo oxford paris prague rome
    sanfrancisco seattle seoul shanghai shenzhen stockholm sydney taipei tokyo toronto vancouver venice vienna warsaw
    washington zurich bangalore hyderabad chennai kolkata pune karachi lahore california texas florida alaska arizona colorado
    hawaii illinois michigan nevada ohio oregon utah virginia africa asia europe antarctica oceania gatwick heathrow stansted
    luton
    """
)
TONGUES = words(
    """
    english french spanish german italian portuguese russian chinese mandarin cantonese japanese korean arabic hindi urdu
    bengali turkish dutch swedish norwegian danish finnish czech greek hebrew latin thai vietnamese indonesian malay swahili
    persian ukrainian romanian hungarian welsh irish gaelic catalan esperanto tamil telugu punjabi
    """
)
MAKERS = words(
    """
    google microsoft facebook instagram twitter youtube netflix spotify tiktok linkedin pinterest snapchat reddit quora
    whatsapp lyft airbnb tesla toyota honda bmw audi mercedes volkswagen nissan hyundai kia volvo samsung huawei xiaomi nokia
    sony dell lenovo asus acer nvidia amd ibm cisco salesforce hubspot shopify stripe paypal klarna venmo ebay alibaba walmart
    tesco sainsburys asda lidl aldi ikea starbucks mcdonalds kfc nike adidas gmail outlook hotmail dropbox onedrive icloud
    mailchimp klaviyo zendesk notion evernote deliveroo doordash grubhub ryanair easyjet lufthansa fedex dhl mastercard amex
    hsbc barclays natwest lloyds santander monzo revolut kindle xbox playstation nintendo bitcoin ethereum dogecoin litecoin
    ibuprofen paracetamol aspirin sertraline isotretinoin metformin warfarin amoxicillin insulin
    """
)
KNOWN = TOOLS | PLACES | TONGUES | MAKERS
"""Lower-case words that name something whatever their case."""

ALIASES = {
    "golang": "go", "postgres": "postgresql", "nodejs": "node", "node.js": "node", "nextjs": "next.js", "jpg": "jpeg",
    "nyc": "newyork", "america": "usa", "american": "usa", "us": "usa", "britain": "uk", "british": "uk", "py": "python",
    "js": "javascript", "ts": "typescript", "k8s": "kubernetes", "mandarin": "chinese", "persian": "farsi",
    "tf": "tensorflow", "wa": "whatsapp", "fb": "facebook", "insta": "instagram", "ig": "instagram", "yt": "youtube",
    "csharp": "c#", "cpp": "c++", "yml": "yaml", "md": "markdown", "vs-code": "vscode", "scikit-learn": "sklearn",
    "osx": "macos", "mac": "macos",
}  # fmt: skip
"""Other names of the same thing."""

SHORT_TOOLS = words(
    """
    Access Ada Basic Bun C Cargo Chile Chrome D Dart Discord Edge Excel Express Ford Georgia Go Illustrator Intel Jordan Julia
    Node Opera Oracle Pixel Poetry Polish R Rar Safari Sed Sketch Slack Soap Spark Spring Swift Teams Uber Ups Visa Word Zoom
    """
)
"""Tools whose names are ordinary words or letters: read as names in this spelling only."""
